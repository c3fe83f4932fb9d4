// Jobs and maps over several processes, apart from the library: it opens MPI and NCCL at run time
// where a program asks for them.
module github.com/weftgo/weft/mpi

go 1.26.0

require (
	github.com/ebitengine/purego v0.11.3
	github.com/weftgo/weft v0.0.0
	golang.org/x/term v0.45.0
)

require (
	github.com/apache/arrow-go/v18 v18.8.0 // indirect
	github.com/clipperhouse/uax29/v2 v2.7.0 // indirect
	github.com/dsnet/compress v0.0.1 // indirect
	github.com/goccy/go-json v0.10.6 // indirect
	github.com/google/flatbuffers v25.12.19+incompatible // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/klauspost/compress v1.20.4 // indirect
	github.com/klauspost/cpuid/v2 v2.4.0 // indirect
	github.com/mattn/go-runewidth v0.0.20 // indirect
	github.com/parquet-go/bitpack v1.0.0 // indirect
	github.com/parquet-go/parquet-go v0.32.0 // indirect
	github.com/pierrec/lz4/v4 v4.1.29 // indirect
	github.com/spf13/pflag v1.0.9 // indirect
	github.com/zeebo/xxh3 v1.1.0 // indirect
	golang.org/x/exp v0.0.0-20260112195511-716be5621a96 // indirect
	golang.org/x/text v0.41.0 // indirect
)

require (
	github.com/jedib0t/go-pretty/v6 v6.8.3
	github.com/spf13/cobra v1.10.2
	github.com/weftgo/weft/arrow v0.0.0 // indirect
	github.com/weftgo/weft/internal/table v0.0.0
	golang.org/x/sys v0.49.0 // indirect
)
