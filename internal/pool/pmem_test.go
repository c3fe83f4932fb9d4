package pool

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// fakeSysfs creates a directory tree like sysfs. Values are contents of files, or targets of links
// after "-> ".
func fakeSysfs(t *testing.T, tree map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range tree {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		to, link := strings.CutPrefix(content, "-> ")
		var err error
		if link {
			err = os.Symlink(to, path)
		} else {
			err = os.WriteFile(path, []byte(content), 0o444)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func setSysfs(t *testing.T, root string) {
	saved := sysfs
	sysfs = root
	t.Cleanup(func() { sysfs = saved })
}

// checkPMem accepts only the right devices and regions, and requires the right assertions.
func TestCheckPMem(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("sysfs has colons in its names, and is Linux's")
	}
	const (
		nd  = "devices/LNXSYSTM:00/ACPI0012:00/ndbus0/region0"
		cxl = "devices/platform/ACPI0017:00/root0/decoder0.0/region0"
	)
	device := func(at, driver string, files ...string) map[string]string {
		tree := map[string]string{
			"dev/char/252:3":               "-> ../../" + at + "/dax0.0",
			at + "/dax0.0/subsystem":       "-> /sys/bus/dax",
			at + "/dax0.0/driver":          "-> /sys/bus/dax/drivers/" + driver,
			"devices/persistence_domain.x": "cpu_cache", // file of another name
		}
		for i := 0; i < len(files); i += 2 {
			tree[files[i]] = files[i+1]
		}
		return tree
	}
	domain := func(is string) map[string]string {
		return device(nd+"/dax0.0", "device_dax", nd+"/persistence_domain", is+"\n")
	}
	behindCXL := device(cxl+"/dax_region0", "device_dax", cxl+"/subsystem", "-> /sys/bus/cxl")
	all := Requirements{GPU: true, Asserted: Assertions{DDIOOff: true, GlobalPersistentFlush: true}}
	for _, c := range []struct {
		name string
		tree map[string]string
		req  Requirements
		want Domain
		why  string
	}{
		{"eADR", domain("cpu_cache"), Requirements{GPU: true}, CPUCache, ""},
		{"ADR", domain("memory_controller"), Requirements{}, MemoryController, ""},
		{"ADR and a GPU", domain("memory_controller"), Requirements{GPU: true, Asserted: Assertions{GlobalPersistentFlush: true}}, "", "DDIO"},
		{"ADR and a GPU without DDIO", domain("memory_controller"), Requirements{GPU: true, Asserted: Assertions{DDIOOff: true}}, MemoryController, ""},
		{"unknown domain", domain("wishful"), all, "", `"wishful"`},
		{"empty domain", domain(""), all, "", `persistence domain ""`},
		{"CXL", behindCXL, Requirements{Asserted: Assertions{DDIOOff: true}}, "", "Global Persistent Flush"},
		{"CXL with flush", behindCXL, Requirements{GPU: true, Asserted: Assertions{GlobalPersistentFlush: true}}, CXL, ""},
		{"volatile", device(nd, "device_dax"), all, "", "volatile"},
		{"as system memory", device(nd, "kmem", nd+"/persistence_domain", "cpu_cache"), all, "", `"kmem"`},
		{"another device", map[string]string{"dev/char/252:3": "-> ../../a", "a/subsystem": "-> /sys/class/tty"}, all, "", `"tty"`},
		{"no device", map[string]string{"dev/char/252:4": "-> ../../a"}, all, "", "252:3"},
	} {
		setSysfs(t, fakeSysfs(t, c.tree))
		is, err := checkPMem(252, 3, c.req)
		if is != c.want || (err == nil) != (c.why == "") || err != nil && (!errors.Is(err, ErrNotDurable) || !strings.Contains(err.Error(), c.why)) {
			t.Errorf("%s: %q, %v; want %q, %q", c.name, is, err, c.want, c.why)
		}
	}
	// The root itself may be a link, and directories above it are ignored.
	root := fakeSysfs(t, device(nd, "device_dax"))
	link := filepath.Join(t.TempDir(), "sys")
	if err := errors.Join(os.Symlink(root, link), os.WriteFile(filepath.Join(filepath.Dir(root), "persistence_domain"), []byte("cpu_cache"), 0o600)); err != nil {
		t.Fatal(err)
	}
	setSysfs(t, link)
	if is, err := checkPMem(252, 3, Requirements{}); !errors.Is(err, ErrNotDurable) {
		t.Errorf("behind a link: %q, %v", is, err)
	}
	if err := errors.Join(os.Remove(link), os.Symlink(fakeSysfs(t, domain("cpu_cache")), link)); err != nil {
		t.Fatal(err)
	}
	if is, err := checkPMem(252, 3, Requirements{}); is != CPUCache {
		t.Errorf("eADR behind a link: %q, %v", is, err)
	}
}
