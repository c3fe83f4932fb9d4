//go:build linux && (amd64 || arm64)

package cuda

import (
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/ebitengine/purego"

	"github.com/weftgo/weft/device"
)

// sharedLibrary is a library opened by the system's loader. This file is the only one that uses
// purego, so that another way to call the driver changes nothing else.
type sharedLibrary struct {
	handle uintptr
	name   string
}

// openLibrary opens the first of paths that exists.
func openLibrary(paths []string) (library, error) {
	// The loader stores the text of its last error for each thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, path := range paths {
		handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
		switch {
		case err == nil:
			return &sharedLibrary{handle, path}, nil
		case !missing(err, path):
			return nil, fmt.Errorf("cuda: %w: %s does not load: %w", device.ErrDriver, path, err)
		}
	}
	return nil, fmt.Errorf("cuda: %w: %s was not found; install the NVIDIA driver, or in a container pass the GPU through (docker run --gpus all)",
		device.ErrNoDriver, paths[0])
}

// missing reports whether path itself is not installed. It returns false if only a dependency is
// missing.
func missing(err error, path string) bool {
	msg := err.Error()
	return strings.Contains(msg, "No such file or directory") && strings.Contains(msg, path)
}

func (l *sharedLibrary) lookup(name string) uintptr {
	fn, err := purego.Dlsym(l.handle, name)
	if err != nil {
		return 0
	}
	return fn
}

func (l *sharedLibrary) invoke(fn uintptr, args []uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, args...)
	return r
}

func (l *sharedLibrary) path() string { return l.name }

// pause sleeps on the thread. The Go runtime's timers fire a millisecond late if the scheduler is
// in epoll.
func pause(d time.Duration) {
	ts := syscall.NsecToTimespec(int64(d))
	// If a signal ends the sleep early, the caller only polls sooner.
	_ = syscall.Nanosleep(&ts, nil)
}
