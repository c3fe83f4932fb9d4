package cuda

import (
	"os"
	"testing"

	"github.com/weftgo/weft/device"
)

// OpenFake opens a GPU of a fake driver that works late, for tests outside of
// this package.
func OpenFake(t testing.TB) device.Device { return newFake().open(t) }

// RequireGPU skips a test where there is no GPU that can be used. With
// WEFT_REQUIRE_GPU=1 in the environment it fails it, so that a machine that is
// supposed to have one cannot pass by skipping.
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
