package parquet

import (
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// fileMeta is the part of a file's metadata that reading requires. Statistics and other parts are
// skipped. If a writer omitted entries of a list in a skipped part, that causes no error.
type fileMeta struct {
	Schema    thrift.Slice[format.SchemaElement] `thrift:"2,required"`
	NumRows   int64                              `thrift:"3,required"`
	RowGroups thrift.Slice[groupMeta]            `thrift:"4,required"`
	CreatedBy string                             `thrift:"6,optional"`
}

type groupMeta struct {
	Columns       thrift.Slice[chunkMeta] `thrift:"1,required"`
	TotalByteSize int64                   `thrift:"2,required"`
	NumRows       int64                   `thrift:"3,required"`
}

type chunkMeta struct {
	FilePath  string                      `thrift:"1,optional"`
	MetaData  pagesMeta                   `thrift:"3,optional"`
	Encrypted format.ColumnCryptoMetaData `thrift:"8,optional"`
}

type pagesMeta struct {
	Type                  format.Type             `thrift:"1,required"`
	Codec                 format.CompressionCodec `thrift:"4,required"`
	NumValues             int64                   `thrift:"5,required"`
	TotalUncompressedSize int64                   `thrift:"6,required"`
	TotalCompressedSize   int64                   `thrift:"7,required"`
	DataPageOffset        int64                   `thrift:"9,required"`
	DictionaryPageOffset  int64                   `thrift:"11,optional"`
}
