//go:build !linux || !(amd64 || arm64)

package cuda

import (
	"fmt"
	"runtime"
	"time"

	"github.com/weftgo/weft/device"
)

// openLibrary fails, because this package supports the driver on 64-bit Linux only.
func openLibrary([]string) (library, error) {
	return nil, fmt.Errorf("cuda: %w: NVIDIA GPUs are supported on Linux (amd64 and arm64) only, this is %s/%s",
		device.ErrNoDriver, runtime.GOOS, runtime.GOARCH)
}

func pause(d time.Duration) { time.Sleep(d) }
