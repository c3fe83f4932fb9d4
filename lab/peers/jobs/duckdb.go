//go:build duckdb && cgo

package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"github.com/duckdb/duckdb-go/v2"
)

// duckDB returns DuckDB, an SQL engine in C++ that runs in this process.
func duckDB() Peer { return Peer{Name: "DuckDB", Rival: true, Load: ofDuckDB} }

// Queries on the table with the result of a job.
const (
	askGroups = "SELECT count(*), sum(n), sum(total), sum(n*n) FROM result"
	askCount  = "SELECT any_value(n), 0, 0, 0 FROM result"
	askPairs  = "SELECT count(*), sum(a), sum(b), sum(a*b) % 18446744073709551616 FROM result"
)

// statements holds, for each job, the statement that computes the result and the query that checks
// it.
var statements = map[string][2]string{
	"group":    {"SELECT key, count(*) AS n, sum(val) AS total FROM l GROUP BY key", askGroups},
	"words":    {"SELECT a, b, count(*) AS n, sum(val) AS total FROM l GROUP BY a, b", askGroups},
	"distinct": {"SELECT count(DISTINCT key) AS n FROM l", askCount},
	"dedup":    {"SELECT count(DISTINCT a) AS n FROM l", askCount},
	"join":     {"SELECT l.val AS a, r.val AS b FROM l JOIN r ON l.key = r.key", askPairs},
}

func ofDuckDB(j Job) (w Work, err error) {
	at, err := duckdb.NewConnector("", nil)
	if err != nil {
		return w, err
	}
	db, do := sql.OpenDB(at), statements[j.Does]
	w = Work{
		Run: func() error { _, err := db.Exec("CREATE TABLE result AS " + do[0]); return err },
		Result: func() (r Result, err error) {
			var a, b, c string // 128-bit numbers
			row := db.QueryRow("SELECT x.c0, x.c1::UHUGEINT::VARCHAR, x.c2::UHUGEINT::VARCHAR, " +
				"x.c3::UHUGEINT::VARCHAR FROM (" + do[1] + ") AS x(c0, c1, c2, c3)")
			err = row.Scan(&r.Rows, &a, &b, &c)
			if err == nil {
				_, err = fmt.Sscan(a+" "+b+" "+c, &r.A, &r.B, &r.C)
			}
			_, derr := db.Exec("DROP TABLE result")
			return r, errors.Join(err, derr)
		},
		Close: func() error { return errors.Join(db.Close(), at.Close()) },
	}
	if _, err = db.Exec(fmt.Sprintf("SET threads = %d", cores())); err == nil {
		err = loadDuckDB(at, db, j)
	}
	if err != nil {
		err = errors.Join(err, w.Close())
	}
	return w, err
}

func loadDuckDB(at *duckdb.Connector, db *sql.DB, j Job) error {
	switch j.Does {
	case "dedup":
		return fill(at, db, "l", "a VARCHAR", j.Rows, func(i int, row []driver.Value) {
			row[0] = string(j.Texts[0].at(i))
		})
	case "words":
		columns := "a VARCHAR, b VARCHAR, val BIGINT"
		return fill(at, db, "l", columns, j.Rows, func(i int, row []driver.Value) {
			a, b := j.Texts[0].at(i), j.Texts[1].at(i)
			row[0], row[1], row[2] = string(a), string(b), j.Values[i]
		})
	case "join":
		return errors.Join(fillPairs(at, db, "l", j.Left, numbered(len(j.Left))),
			fillPairs(at, db, "r", j.Right, numbered(len(j.Right))))
	}
	return fillPairs(at, db, "l", j.Left, j.Values)
}

func fillPairs(at *duckdb.Connector, db *sql.DB, name string, keys, vals []int64) error {
	return fill(at, db, name, "key BIGINT, val BIGINT", len(keys), func(i int, row []driver.Value) {
		row[0], row[1] = keys[i], vals[i]
	})
}

func fill(at *duckdb.Connector, db *sql.DB, name, columns string, n int,
	set func(i int, row []driver.Value)) error {
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
	row := make([]driver.Value, 1+strings.Count(columns, ","))
	for i := range n {
		set(i, row)
		if err := rows.AppendRow(row...); err != nil {
			return errors.Join(err, rows.Close())
		}
	}
	return rows.Close()
}
