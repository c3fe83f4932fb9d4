package comm_test

import (
	"math"
	"strings"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/mpi/comm"
)

func TestCheckParts(t *testing.T) {
	host := func(n int) comm.Buf { return comm.Host(make([]byte, n)) }
	for _, test := range []struct {
		name, want           string
		send, recv           comm.Buf
		sendBytes, recvBytes []int64
	}{
		{"exact", "", host(5), host(3), []int64{2, 3}, []int64{0, 3}},
		{"larger buffers", "", host(9), host(9), []int64{2, 3}, []int64{0, 3}},
		{"fewer parts", "1 parts to send, but there are 2 ranks", host(5), host(3), []int64{5}, []int64{0, 3}},
		{"negative", "-1 bytes to receive for rank 1", host(5), host(3), []int64{2, 3}, []int64{3, -1}},
		{"small", "4 bytes to receive for ranks 0 to 1, in a buffer of 3", host(5), host(3), []int64{2, 3}, []int64{1, 3}},
		{"overflow", "in a buffer of 5", host(5), host(0), []int64{3, math.MaxInt64}, []int64{0, 0}},
	} {
		err := comm.CheckParts(2, test.send, test.sendBytes, test.recv, test.recvBytes)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: CheckParts returns %v, want %q", test.name, err, test.want)
		}
	}
}

// TestPart takes parts of buffers in host memory and in device memory.
func TestPart(t *testing.T) {
	data := []byte("abcdef")
	if part := comm.Host(data).Part(2, 3); string(part.Host) != "cde" || part.Len() != 3 {
		t.Errorf("Part of a host buffer is %q", part.Host)
	}
	dev, err := cpu.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	stream, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	on, err := device.Upload(stream, data)
	if err != nil {
		t.Fatal(err)
	}
	defer on.Free()
	part := comm.Buf{On: on, Stream: stream}.Part(1, 4)
	if string(part.On.Host()) != "bcde" || part.Stream != stream || part.Len() != 4 {
		t.Errorf("Part of a buffer on a device is %q", part.On.Host())
	}
}

func TestOpString(t *testing.T) {
	for op, want := range map[comm.Op]string{comm.Sum: "Sum", comm.Min: "Min", comm.Max: "Max", 7: "Op(7)"} {
		if op.String() != want {
			t.Errorf("%d is %q, want %q", uint8(op), op, want)
		}
	}
}
