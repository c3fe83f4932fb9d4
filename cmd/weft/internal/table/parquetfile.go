package table

import (
	"os"
	"strings"

	"github.com/apache/arrow-go/v18/parquet/file"
)

// createdBy is what Parquet files of this command say of their origin.
const createdBy = "weft"

// WrittenByWeft reports whether a file is a whole Parquet file of this command. Only such a file is an earlier output:
// others may be the inputs of a command line whose output was forgotten.
func WrittenByWeft(f *os.File) (is bool) {
	defer func() {
		if recover() != nil { // arrow-go panics on some damaged files
			is = false
		}
	}()
	r, err := file.NewParquetReader(f)
	if err != nil {
		return false
	}
	defer r.Close()
	return strings.HasPrefix(r.MetaData().GetCreatedBy(), createdBy)
}
