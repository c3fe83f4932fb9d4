//go:build linux && (amd64 || arm64)

package cuda

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
)

func TestNoLibrary(t *testing.T) {
	_, err := openDriver([]string{filepath.Join(t.TempDir(), "libcuda.so.1"), filepath.Join(t.TempDir(), "libcuda.so.1")})
	if !errors.Is(err, device.ErrNoDriver) || !strings.Contains(err.Error(), "install the NVIDIA driver") {
		t.Errorf("error is %v", err)
	}
}

func TestBrokenLibrary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "libcuda.so.1")
	if err := os.WriteFile(path, []byte("this is no library"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := openDriver([]string{path})
	if !errors.Is(err, device.ErrDriver) || !strings.Contains(err.Error(), path+" does not load") {
		t.Errorf("error is %v", err)
	}
}

// build compiles C text into a library that replaces the driver's.
func build(t *testing.T, source string) string {
	t.Helper()
	compiler, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("needs gcc to build a library")
	}
	dir := t.TempDir()
	in, out := filepath.Join(dir, "driver.c"), filepath.Join(dir, "libcuda.so.1")
	if err := os.WriteFile(in, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	if msg, err := exec.Command(compiler, "-shared", "-fPIC", "-o", out, in).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, msg)
	}
	return out
}

// driverSource returns the source of a driver of CUDA 11.4. Every call returns the code init, and
// the functions in missing do not exist.
func driverSource(init Code, missing ...string) string {
	var b strings.Builder
	b.WriteString("int cuDriverGetVersion(int *v) { *v = 11040; return 0; }\n" +
		"int cuGetErrorName(int c, const char **s) { *s = \"CUDA_ERROR_OF_TEST\"; return 0; }\n")
	done := map[string]bool{"cuDriverGetVersion": true, "cuGetErrorName": true}
	for _, name := range missing {
		done[name] = true
	}
	for _, info := range symbols {
		if name := info.export(); !done[name] {
			fmt.Fprintf(&b, "int %s(void) { return %d; }\n", name, init)
		}
	}
	return b.String()
}

// The package makes real calls into C, up to the point where a GPU is needed.
func TestLibraryWithoutGPU(t *testing.T) {
	_, err := openDriver([]string{build(t, driverSource(noDevice))})
	if !errors.Is(err, device.ErrNoDevice) || !strings.Contains(err.Error(), "cuInit: CUDA_ERROR_OF_TEST (100)") {
		t.Errorf("error is %v", err)
	}
}

func TestLibraryTooOld(t *testing.T) {
	_, err := openDriver([]string{build(t, driverSource(0, "cuMemAlloc_v2"))})
	if !errors.Is(err, device.ErrDriverTooOld) || !strings.Contains(err.Error(), "cuMemAlloc") || !strings.Contains(err.Error(), "CUDA 11.4") {
		t.Errorf("error is %v", err)
	}
	_, err = openDriver([]string{build(t, "int unrelated(void) { return 0; }")})
	if !errors.Is(err, device.ErrDriver) || !strings.Contains(err.Error(), "not the library of an NVIDIA driver") {
		t.Errorf("error is %v", err)
	}
}

// Eleven arguments and a pointer reach C unchanged.
func TestCallIntoC(t *testing.T) {
	const body = `
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
	unsigned shared, void *stream, void **params, void **extra) {
	unsigned long long p = *(unsigned long long *)extra[1];
	return gx == 2 && gy == 3 && gz == 4 && bx == 5 && by == 6 && bz == 7 && shared == 0 &&
		extra[0] == (void *)1 && extra[2] == (void *)2 && *(unsigned long long *)extra[3] == 8 && extra[4] == 0 &&
		stream == (void *)8 && params == 0 && f == (void *)1 ? (int)p : -1;
}`
	drv, err := openDriver([]string{build(t, driverSource(0, "cuLaunchKernel")+body)})
	if err != nil {
		t.Fatal(err)
	}
	d := &Device{drv: drv}
	s := &stream{dev: d, handle: 8}
	k := &kernel{module: &module{dev: d}, name: "k", paramSize: 8}
	k.handle.Store(1)
	err = s.Launch(k, device.Dim{X: 2, Y: 3, Z: 4}, device.Dim{X: 5, Y: 6, Z: 7}, []byte{0xbc, 2, 0, 0, 0, 0, 0, 0})
	if codeOf(err) != illegalAddress { // the 700 of the parameters
		t.Errorf("Launch: %v", err)
	}
	var e *Error
	if !errors.As(err, &e) || e.Name != "CUDA_ERROR_OF_TEST" {
		t.Errorf("error is %#v", e)
	}
}
