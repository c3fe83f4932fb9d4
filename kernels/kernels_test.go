package kernels

import (
	"io/fs"
	"os"
	"testing"
)

// The embedded headers equal those of the tree, under the names that kernels use.
func TestHeaders(t *testing.T) {
	found := 0
	err := fs.WalkDir(os.DirFS("include"), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		found++
		want, err := os.ReadFile("include/" + path)
		if err != nil {
			return err
		}
		if got, err := fs.ReadFile(Headers(), path); err != nil || string(got) != string(want) {
			t.Errorf("%s: %d bytes, %v", path, len(got), err)
		}
		return nil
	})
	if err != nil || found == 0 {
		t.Errorf("%d headers, %v", found, err)
	}
	if _, err := fs.Stat(Headers(), "weft/warp.cuh"); err != nil {
		t.Error(err)
	}
}
