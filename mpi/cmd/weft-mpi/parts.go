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

var parquetKind = outfile.Kind{
	Name: "a Parquet file that weft has written",
	Is:   table.WrittenByWeft,
}

func partName(rank int) string { return fmt.Sprintf("part-%05d.parquet", rank) }

// openParts creates the folder of --parts. It returns an error if a part would replace an input, or
// a file that weft has not written. Parts of a job with more ranks are an error, too, because
// readers would take them for parts of this result.
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
