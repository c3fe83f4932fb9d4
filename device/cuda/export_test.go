package cuda

import (
	"os"
	"testing"

	"github.com/weftgo/weft/device"
)

// OpenFake opens a GPU of a fake driver that executes work late, for tests outside of this package.
func OpenFake(t testing.TB) device.Device { return newFake().open(t) }

// RequireGPU skips a test on a machine without a usable GPU. With WEFT_REQUIRE_GPU=1 in the
// environment it fails the test, so that a machine that should have a GPU cannot pass by skipping.
func RequireGPU(t testing.TB) {
	t.Helper()
	d, err := Open(0)
	if err == nil {
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		return
	}
	if os.Getenv("WEFT_REQUIRE_GPU") == "1" {
		t.Fatalf("WEFT_REQUIRE_GPU=1, but: %v", err)
	}
	t.Skipf("needs a GPU: %v", err)
}
