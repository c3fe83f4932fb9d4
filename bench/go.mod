module github.com/weftgo/weft/bench

go 1.26.0

replace github.com/weftgo/weft => ../

require (
	github.com/cockroachdb/swiss v0.0.0-20260820225851-333444432258
	github.com/puzpuzpuz/xsync/v4 v4.5.0
	github.com/weftgo/weft v0.0.0
)

require golang.org/x/sys v0.49.0 // indirect
