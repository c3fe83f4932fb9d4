package sim

import (
	"flag"
	"testing"

	"github.com/weftgo/weft/device/cuda"
)

var recordTo = flag.String("sim.record", "", "file for what the first GPU computes for every form")

// TestRecord records the golden file. Run it on a machine with an H200, in this package's
// directory:
//
//	go test -run TestRecord -sim.record testdata/hopper.json.gz
//
// or with the binary of go test -c, which needs no other file:
//
//	sim.test -test.run 'TestRecord|OnGPU' -test.v -sim.record hopper.json.gz
func TestRecord(t *testing.T) {
	if *recordTo == "" {
		t.Skip("-sim.record is not given")
	}
	dev, err := cuda.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	record(t, dev, *recordTo)
}
