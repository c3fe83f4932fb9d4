//go:build duckdb && cgo

package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/duckdb/duckdb-go/v2"
)

// duckDB is an SQL engine in the process, in C++.
func duckDB() Peer { return Peer{Name: "DuckDB", Load: ofDuckDB} }

// queries are what does a job, which leaves a table of results, and what is asked of that.
var queries = map[string][2]string{
	"group":    {"CREATE TABLE result AS SELECT key, count(*) AS n, sum(val) AS total FROM l GROUP BY key", "SELECT count(*), sum(n), sum(total), sum(n*n) FROM result"},
	"distinct": {"CREATE TABLE result AS SELECT count(DISTINCT key) AS n FROM l", "SELECT any_value(n), 0, 0, 0 FROM result"},
	"dedup":    {"CREATE TABLE result AS SELECT count(DISTINCT line) AS n FROM lines", "SELECT any_value(n), 0, 0, 0 FROM result"},
	"join":     {"CREATE TABLE result AS SELECT l.val AS a, r.val AS b FROM l JOIN r ON l.key = r.key", "SELECT count(*), sum(a), sum(b), sum(a*b) % 18446744073709551616 FROM result"},
}

func ofDuckDB(j Job) (w Work, err error) {
	at, err := duckdb.NewConnector("", nil)
	if err != nil {
		return w, err
	}
	db := sql.OpenDB(at)
	w = Work{
		Run: func() error { _, err := db.Exec(queries[j.Name][0]); return err },
		Result: func() (r Result, err error) {
			var a, b, c string // of 128 bits
			err = db.QueryRow("SELECT x.c0, x.c1::UHUGEINT::VARCHAR, x.c2::UHUGEINT::VARCHAR, x.c3::UHUGEINT::VARCHAR FROM ("+queries[j.Name][1]+") AS x(c0, c1, c2, c3)").Scan(&r.Rows, &a, &b, &c)
			if err == nil {
				_, err = fmt.Sscan(a+" "+b+" "+c, &r.A, &r.B, &r.C)
			}
			_, derr := db.Exec("DROP TABLE result")
			return r, errors.Join(err, derr)
		},
		Close: func() error { return errors.Join(db.Close(), at.Close()) },
	}
	if _, err = db.Exec(fmt.Sprintf("SET threads = %d", cores())); err == nil {
		err = fill(at, db, "l", "key BIGINT, val BIGINT", len(j.Left), pairOf(j.Left, j.Values))
	}
	if err == nil && j.Right != nil {
		err = fill(at, db, "r", "key BIGINT, val BIGINT", len(j.Right), pairOf(j.Right, nil))
	}
	if err == nil && j.Lines != nil {
		err = fill(at, db, "lines", "line VARCHAR", j.Lines.len(), func(i int) []driver.Value { return []driver.Value{string(j.Lines.line(i))} })
	}
	if err != nil {
		err = errors.Join(err, w.Close())
	}
	return w, err
}

// pairOf are the rows of a column of keys and one of values, or of the numbers of rows.
func pairOf(keys, vals []int64) func(i int) []driver.Value {
	row := make([]driver.Value, 2)
	return func(i int) []driver.Value {
		row[0], row[1] = keys[i], int64(i)
		if vals != nil {
			row[1] = vals[i]
		}
		return row
	}
}

// fill makes a table of n rows.
func fill(at *duckdb.Connector, db *sql.DB, name, columns string, n int, row func(i int) []driver.Value) error {
	if _, err := db.Exec("CREATE TABLE " + name + " (" + columns + ")"); err != nil {
		return err
	}
	conn, err := at.Connect(context.Background())
	if err != nil {
		return err
	}
	defer conn.Close()
	rows, err := duckdb.NewAppenderFromConn(conn, "", name)
	if err != nil {
		return err
	}
	for i := range n {
		if err := rows.AppendRow(row(i)...); err != nil {
			return errors.Join(err, rows.Close())
		}
	}
	return rows.Close()
}
