package hostmem

import (
	"math"
	"testing"
	"testing/fstest"
)

const (
	mountV2 = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	mountV1 = "33 32 0:30 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n" +
		"34 32 0:31 / /sys/fs/cgroup/cpu rw shared:10 - cgroup cgroup rw,cpu\n"
	unlimitedV1 = "9223372036854771712\n"
)

// The least limit of all cgroups counts, from the process's cgroup up to the root of the mount.
func TestLimits(t *testing.T) {
	for _, x := range []struct {
		name string
		want int64
		text map[string]string // by file of /sys/fs/cgroup, or of /proc/self
	}{
		{"no cgroups", 0, map[string]string{}},
		{"no mount", 0, map[string]string{"cgroup": "0::/a\n", "/a/memory.max": "7\n"}},
		{"v2", 500, map[string]string{"cgroup": "0::/a/b\n", "mountinfo": mountV2,
			"/a/b/memory.max": "500\n", "/a/b/memory.high": "max\n", "/a/memory.max": "max\n"}},
		{"v2, high", 400, map[string]string{"cgroup": "0::/a/b\n", "mountinfo": mountV2,
			"/a/b/memory.max": "500\n", "/a/b/memory.high": "400\n"}},
		{"v2, above", 300, map[string]string{"cgroup": "0::/a/b/c\n", "mountinfo": mountV2,
			"/a/b/c/memory.max": "500\n", "/a/memory.max": "300\n", "/a/d/memory.max": "1\n"}},
		{"v2, of the namespace", 200, map[string]string{"cgroup": "0::/\n", "mountinfo": mountV2,
			"/memory.max": "200\n"}},
		{"v2, outside of the namespace", 200, map[string]string{"cgroup": "0::/../other\n",
			"mountinfo": mountV2, "/memory.max": "200\n", "/other/memory.max": "1\n"}},
		{"v2, all unlimited", 0, map[string]string{"cgroup": "0::/a\n", "mountinfo": mountV2,
			"/a/memory.max": "max\n"}},
		{"v2, nothing at all", 1, map[string]string{"cgroup": "0::/a\n", "mountinfo": mountV2,
			"/a/memory.max": "0\n"}},
		{"v2, a part is mounted", 600, map[string]string{"cgroup": "0::/pod/x\n",
			"mountinfo":     "1 2 0:3 /pod /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
			"/x/memory.max": "600\n", "/memory.max": "700\n", "/pod/x/memory.max": "1\n"}},
		{"v2, another part is mounted", 700, map[string]string{"cgroup": "0::/podium/x\n",
			"mountinfo":     "1 2 0:3 /pod /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
			"/x/memory.max": "600\n", "/memory.max": "700\n", "/ium/x/memory.max": "1\n"}},
		{"a space", 60, map[string]string{"cgroup": "0::/a b\n",
			"mountinfo":           "1 2 0:3 / /sys/fs/cgroup/c\\040d rw - cgroup2 cgroup rw\n",
			"/c d/a b/memory.max": "60\n"}},
		{"v1", 900, map[string]string{"cgroup": "4:memory:/a/b\n3:cpu,cpuacct:/c\n",
			"mountinfo":                               mountV1,
			"/memory/a/b/memory.limit_in_bytes":       "900\n",
			"/memory/a/memory.limit_in_bytes":         unlimitedV1,
			"/cpu/c/memory.limit_in_bytes":            "1\n",
			"/memory/a/b/memory.stat":                 "cache 1\nhierarchical_memory_limit 901\n",
			"/memory/other/memory.limit_in_bytes":     "1\n",
			"/memory/a/b/below/memory.limit_in_bytes": "1\n"}},
		{"v1, above", 800, map[string]string{"cgroup": "4:cpu,memory:/a/b\n", "mountinfo": mountV1,
			"/memory/a/b/memory.limit_in_bytes": "900\n",
			"/memory/a/memory.limit_in_bytes":   "800\n", "/memory/a/memory.use_hierarchy": "1\n"}},
		{"v1, above, not hierarchical", 900, map[string]string{"cgroup": "4:memory:/a/b\n",
			"mountinfo":                         mountV1,
			"/memory/a/b/memory.limit_in_bytes": "900\n", "/memory/a/b/memory.use_hierarchy": "0\n",
			"/memory/a/memory.limit_in_bytes": "800\n", "/memory/a/memory.use_hierarchy": "0\n"}},
		{"v1, in a container", 70, map[string]string{"cgroup": "4:memory:/docker/x\n",
			"mountinfo": "1 2 0:3 /docker/x /sys/fs/cgroup/memory ro - cgroup c " +
				"rw,memory\n",
			"/memory/memory.limit_in_bytes": "90\n",
			"/memory/memory.stat":           "hierarchical_memory_limit 70\n"}},
		{"hybrid", 900, map[string]string{"cgroup": "4:memory:/a\n0::/u\n",
			"mountinfo": mountV1 +
				"40 32 0:40 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n",
			"/memory/a/memory.limit_in_bytes": "900\n", "/unified/u/cgroup.procs": "1\n"}},
		{"hybrid, both", 50, map[string]string{"cgroup": "4:memory:/a\n0::/u\n",
			"mountinfo": mountV1 +
				"40 32 0:40 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n",
			"/memory/a/memory.limit_in_bytes": "900\n", "/unified/u/memory.max": "50\n"}},
		{"damage", 0, map[string]string{"cgroup": "x\n0:\n\n", "mountinfo": "- cgroup2\n1 2 3\n"}},
	} {
		root := fstest.MapFS{}
		for name, text := range x.text {
			dir := "proc/self/"
			if name[0] == '/' {
				dir = "sys/fs/cgroup"
			}
			root[dir+name] = &fstest.MapFile{Data: []byte(text)}
		}
		if n := cgroups(root); n != x.want {
			t.Errorf("%s: %d, want %d", x.name, n, x.want)
		}
	}
}

// The memory of the machine is read from meminfo. The limit of this process does not exceed it.
func TestPhysical(t *testing.T) {
	for text, want := range map[string]int64{
		"MemTotal:       24000 kB\nMemFree: 1 kB\n": 24000 << 10,
		"MemFree: 1 kB\n": 0, "": 0, "MemTotal: x kB\n": 0,
	} {
		root := fstest.MapFS{"proc/meminfo": {Data: []byte(text)}}
		if n := physical(root); n != want {
			t.Errorf("%q: %d, want %d", text, n, want)
		}
	}
	if n := physical(fstest.MapFS{}); n != 0 {
		t.Errorf("without a file: %d", n)
	}
	n := Limit()
	if n < 64<<20 || n > 1<<50 {
		t.Errorf("this process may use %d bytes", n)
	}
	if got := least(0, 5, 3, 0, math.MaxInt64); got != 3 {
		t.Errorf("least is %d", got)
	}
}
