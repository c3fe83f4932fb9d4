package command

import (
	"fmt"
	"os"
	"testing"
)

// The test binary is the child of TestChild.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "child" {
		fmt.Printf("{\"set\": %q}\n", os.Getenv("WEFT_CHILD"))
		return
	}
	os.Exit(m.Run())
}

func TestChild(t *testing.T) {
	var got struct{ Set string }
	err := Child([]string{"child"}, []string{"WEFT_CHILD=yes"}, &got)
	if err != nil || got.Set != "yes" {
		t.Errorf("%+v, %v", got, err)
	}
	if err := Child([]string{"-test.nothing"}, nil, &got); err == nil {
		t.Error("a child that fails is no error")
	}
}

// The peak includes returned memory, until it is reset.
func TestMemory(t *testing.T) {
	if _, err := os.Stat("/proc/self/clear_refs"); err != nil {
		t.Skip("no /proc of Linux")
	}
	pid := os.Getpid()
	if err := ResetPeak(pid); err != nil {
		t.Fatal(err)
	}
	before, err := Memory(pid, "VmHWM")
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 64<<20)
	for i := 0; i < len(block); i += 4096 {
		block[i] = 1
	}
	after, err := Memory(pid, "VmHWM")
	if grown := after - before; err != nil || grown < 60<<20 || grown > 100<<20 {
		t.Errorf("64 MiB raise the peak by %d bytes, %v", grown, err)
	}
	if _, err := Memory(pid, "VmNone"); err == nil {
		t.Error("a line that is not there is no error")
	}
}
