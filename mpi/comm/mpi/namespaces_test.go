//go:build linux

package mpi_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// agent is the program with which Open MPI starts its daemon on another host. Here the host is a
// network namespace with another host name. The arguments are the address and the command.
const agent = `#!/bin/sh
shift
exec ip netns exec %[1]s unshare --uts sh -c 'hostname %[1]s; exec sh -c "$1"' sh "$*"
`

// TestNamespaces runs two ranks in two network namespaces, which MPI treats as two hosts. They
// exchange through TCP over a pair of virtual links.
func TestNamespaces(t *testing.T) {
	l := launchers[0]
	if l.path() == "" {
		absent(t, "Open MPI is not installed")
	}
	here, there := fmt.Sprintf("weft%da", os.Getpid()), fmt.Sprintf("weft%db", os.Getpid())
	addresses := namespaces(t, here, there)
	script := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(script, fmt.Appendf(nil, agent, there), 0o700); err != nil {
		t.Fatal(err)
	}
	// The launcher runs in the first namespace.
	l.prefix = []string{"ip", "netns", "exec", here, "unshare", "--uts", "sh", "-c", "hostname " + here + `; exec "$@"`, "sh"}
	l.flags = []string{
		"--mca", "plm_rsh_agent", script, "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--bind-to", "none",
		"-H", addresses[0] + ":1," + addresses[1] + ":1", "-x", partVariable, "-x", sizeVariable,
	}
	l.start(t, 2, "suite").succeed(t, 2)

	text, err := exec.Command("ip", "netns", "exec", here, "cat", "/sys/class/net/"+here+"/statistics/tx_bytes").Output()
	if err != nil {
		t.Fatal(err)
	}
	if sent, err := strconv.Atoi(strings.TrimSpace(string(text))); err != nil || sent < 500_000 {
		t.Errorf("%d bytes went over the link, %v; the suite exchanges more", sent, err)
	}
}

// namespaces creates two network namespaces with a link between them, and returns the addresses of
// its ends. The ends have the names of the namespaces.
func namespaces(t *testing.T, here, there string) [2]string {
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	addresses := [2]string{"10.77.0.1", "10.77.0.2"}
	t.Cleanup(func() {
		for _, name := range []string{here, there} {
			exec.Command("ip", "netns", "del", name).Run() // also deletes the link
		}
	})
	for _, command := range []string{
		"netns add " + here,
		"netns add " + there,
		"link add " + here + " netns " + here + " type veth peer name " + there + " netns " + there,
		"-n " + here + " addr add " + addresses[0] + "/24 dev " + here,
		"-n " + there + " addr add " + addresses[1] + "/24 dev " + there,
		"-n " + here + " link set " + here + " up",
		"-n " + there + " link set " + there + " up",
		"-n " + here + " link set lo up",
		"-n " + there + " link set lo up",
	} {
		if out, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput(); err != nil {
			t.Skipf("network namespaces are not to be had: ip %s: %v %s", command, err, out)
		}
	}
	return addresses
}
