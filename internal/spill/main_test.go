package spill

import (
	"flag"
	"os"
	"testing"
)

var long = flag.Bool("long", false, "run tests of random inputs a hundred times longer")

// rounds returns how often a test of random inputs runs.
func rounds(n int) int {
	if *long {
		return 100 * n
	}
	return n
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(m.Run())
}
