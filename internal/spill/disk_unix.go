//go:build !windows

package spill

import (
	"errors"
	"os"
)

// defaultDirs returns the directories to try if none is given. If $TMPDIR is set, the user has
// chosen it. Otherwise /var/tmp comes first, because it is on a disk more often than /tmp.
func defaultDirs() []string {
	if dir := os.Getenv("TMPDIR"); dir != "" {
		return []string{dir}
	}
	return []string{"/var/tmp", os.TempDir()}
}

// unnamed makes a file and removes its name at once. If the process is killed in between, an empty
// file remains.
func unnamed(dir string) (*os.File, error) {
	f, err := os.OpenFile(tempName(dir), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
