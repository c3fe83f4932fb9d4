//go:build !unix

package durable

import (
	"errors"
	"fmt"
	"os"
)

func (d osDir) SyncDir() error { return errors.ErrUnsupported }

// lock returns an error: what a store relies on has been tested on Unix systems only.
func (d osDir) lock(bool) (*os.File, error) {
	return nil, fmt.Errorf("%w: stores need a Unix system", errors.ErrUnsupported)
}
