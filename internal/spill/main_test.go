package spill

import (
	"flag"
	"os"
	"testing"
)

// childDir is the environment variable that makes the test binary write until it is killed.
const childDir = "WEFT_SPILL_CHILD_DIR"

var long = flag.Bool("long", false, "run tests of random inputs 100 times longer: a million faults")

// rounds returns how often a test of random inputs runs.
func rounds(n int) int {
	if *long {
		return 100 * n
	}
	return n
}

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" { // see TestKilled
		println(writeForever(dir).Error())
		os.Exit(1)
	}
	flag.Parse()
	os.Exit(m.Run())
}

// writeForever writes to a file in a directory. It prints a line once it has written data.
func writeForever(dir string) error {
	f, err := Create(dir, &Options{Memory: 1 << 20, BlockSize: 16 << 10, AllowMemory: true})
	if err != nil {
		return err
	}
	page := make([]byte, 5000)
	for round := 0; ; round++ {
		var chains [8]*Chain
		for i := range chains {
			chains[i] = f.Chain()
		}
		for i := range 1000 {
			if err := chains[i%8].Append(page); err != nil {
				return err
			}
		}
		if round == 2 {
			println("writing")
		}
		for _, c := range chains {
			if err := c.Free(); err != nil {
				return err
			}
		}
	}
}
