module github.com/weftgo/weft

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.0
	github.com/ebitengine/purego v0.11.3
	golang.org/x/sys v0.49.0
	pgregory.net/rapid v1.3.0
)
