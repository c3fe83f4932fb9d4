//go:build duckdb && cgo

package main

import (
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/duckdb/duckdb-go/v2"
)

func init() { peers["duckdb"] = runDuckDB }

// runDuckDB runs a task in DuckDB, an SQL engine that runs in this process.
func runDuckDB(t task) (r result, err error) {
	at, err := duckdb.NewConnector("", nil)
	if err != nil {
		return r, err
	}
	db := sql.OpenDB(at)
	defer func() { err = errors.Join(err, db.Close(), at.Close()) }()
	settings := fmt.Sprintf("SET threads = %d; SET preserve_insertion_order = false; "+
		"SET temp_directory = '%s/duckdb'", runtime.GOMAXPROCS(0), t.Dir)
	if t.Memory > 0 {
		settings += fmt.Sprintf("; SET memory_limit = '%dB'", t.Memory)
	}
	if _, err := db.Exec(settings); err != nil {
		return r, err
	}
	hash := fmt.Sprintf("(i * %d %% 4294967296)", multiplier)
	index := fmt.Sprintf("(%s %% %d)", hash, t.Keys)
	switch t.Skew {
	case "half":
		index = fmt.Sprintf("CASE WHEN i %% 2 = 0 THEN 0 ELSE %s END", index)
	case "zipf":
		index = fmt.Sprintf("(floor(pow(%d, %s / 4294967296.0))::BIGINT - 1)", t.Keys, hash)
	}
	query := map[string]string{
		"group": fmt.Sprintf("SELECT count(*), sum(s) FROM (SELECT %s AS k, count(*) AS n, "+
			"sum(i %% 1000) AS s FROM range(%d) t(i) GROUP BY k)", index, t.Rows),
		"distinct": fmt.Sprintf("SELECT count(*), 0 FROM (SELECT DISTINCT %s AS k "+
			"FROM range(%d) t(i))", index, t.Rows),
		"join": fmt.Sprintf("SELECT count(*), sum(l.v + r.v) FROM "+
			"(SELECT %s * %d %% 4294967296 AS k, i %% 1000 AS v FROM range(%d) t(i)) l JOIN "+
			"(SELECT %s AS k, i %% 1000 AS v FROM range(%d) t(i)) r USING (k)",
			index, multiplier, t.Rows, hash, t.Keys),
	}[t.Job]
	start := time.Now()
	var sum sql.NullFloat64
	if err = db.QueryRow(query).Scan(&r.Rows, &sum); err != nil {
		return r, err
	}
	r.Sum = int64(sum.Float64)
	return r, r.finish(start)
}
