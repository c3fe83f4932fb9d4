package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/weftgo/weft/internal/outfile"
	"github.com/weftgo/weft/internal/table"
	"github.com/weftgo/weft/internal/table/flags"
)

// parquetKind is the kind of files that the result may replace.
var parquetKind = outfile.Kind{
	Name: "a Parquet file that weft has written",
	Is:   table.WrittenByWeft,
}

// partName is the file of a rank in the folder of --parts.
func partName(rank int) string { return fmt.Sprintf("part-%05d.parquet", rank) }

// openParts makes the folder of --parts. It refuses parts that are inputs or not weft's. It also
// refuses those of a job with more ranks: together with the new ones they would be read as one
// result.
func (j *groupJob) openParts() error {
	if j.parts == "" {
		return nil
	}
	if err := os.Mkdir(j.parts, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("--parts %s: %w", j.parts, flags.Reason(err))
	}
	there, err := os.ReadDir(j.parts)
	if err != nil {
		return fmt.Errorf("--parts %s: %w", j.parts, flags.Reason(err))
	}
	for _, e := range there {
		number := strings.TrimSuffix(strings.TrimPrefix(e.Name(), "part-"), ".parquet")
		rank, err := strconv.Atoi(number)
		if err == nil && rank >= j.comm.Size() && e.Name() == partName(rank) {
			return fmt.Errorf(
				"--parts %s: has %s of a job with more ranks; remove it first",
				j.parts,
				e.Name(),
			)
		}
	}
	plan, err := outfile.New(j.names, nil, nil)
	if err == nil {
		err = plan.Writes(
			"--parts",
			filepath.Join(j.parts, partName(j.comm.Rank())),
			parquetKind,
			false,
		)
	}
	return err
}
