//go:build !linux

package atomicfile

import (
	"errors"
	"io/fs"
	"os"
)

func temporary(target string, mode fs.FileMode) (*os.File, string, error) {
	return visible(target, mode)
}

func linkTemporary(*os.File, string) error { return errors.ErrUnsupported }

func replaceable(string, fs.FileInfo, int) error { return nil }

func keepOwner(*os.File, fs.FileInfo) {}

func descriptor(string) (int, bool) { return 0, false }

func openDescriptor(int, string) (*os.File, error) { return nil, errors.ErrUnsupported }
