package spill

import (
	"os"

	"golang.org/x/sys/windows"
)

func defaultDirs() []string { return []string{os.TempDir()} }

func inMemory(string) bool { return false }

// temporary makes a file that Windows deletes with its last handle, even if the process ends
// without Close.
func temporary(dir string) (*os.File, error) {
	path := tempName(dir)
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	handle, err := windows.CreateFile(name,
		windows.GENERIC_READ|windows.GENERIC_WRITE|windows.DELETE,
		windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE,
		nil, windows.CREATE_NEW,
		windows.FILE_ATTRIBUTE_TEMPORARY|windows.FILE_FLAG_DELETE_ON_CLOSE, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(handle), path), nil
}
