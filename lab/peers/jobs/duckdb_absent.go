//go:build !duckdb || !cgo

package main

// duckDB is absent: its driver needs cgo and the C++ library.
func duckDB() Peer {
	return Peer{Name: "DuckDB", Skip: func() string {
		return "built without it: CGO_ENABLED=1 go run -tags duckdb ./peers/jobs"
	}}
}
