package gphash

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/internal/vocabulary"
)

// digests are those that a kernel computes of strings by weft/siphash.cuh and weft/crc32c.cuh.
type digests struct {
	sip13, fast []uint64
	crc32c      []uint32 // 32 lanes per string
}

func digestOn(t *testing.T, dev device.Device, seed [2]uint64, strings [][]byte) digests {
	t.Helper()
	stream, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stream.Close() })
	module, err := dev.Load(&vocabulary.DigestImage)
	if err != nil {
		t.Fatal(err)
	}
	kernel, err := module.Kernel("digest_strings")
	if err != nil {
		t.Fatal(err)
	}
	var words []uint64
	var first, sizes []uint32
	for _, s := range strings {
		first, sizes = append(first, uint32(len(words))), append(sizes, uint32(len(s)))
		for ; len(s) >= 8; s = s[8:] {
			words = append(words, binary.LittleEndian.Uint64(s))
		}
		if len(s) > 0 {
			words = append(words, tailWord(s))
		}
	}
	n := len(strings)
	sip13, fast, crc32c := upload(t, stream, make([]uint64, n)), upload(t, stream, make([]uint64, n)), upload(t, stream, make([]uint32, 32*n))
	params := vocabulary.DigestParams{
		Words: upload(t, stream, words).Ptr(), First: upload(t, stream, first).Ptr(), Bytes: upload(t, stream, sizes).Ptr(),
		Sip13: sip13.Ptr(), Fast: fast.Ptr(), Crc32c: crc32c.Ptr(), Seed0: seed[0], Seed1: seed[1], N: uint32(n),
	}
	if err := device.Launch(stream, kernel, device.Dim{X: (n + 1) / 2}, device.Dim{X: 64}, &params); err != nil {
		t.Fatal(err)
	}
	return digests{download(t, stream, sip13), download(t, stream, fast), download(t, stream, crc32c)}
}

func upload[T device.Elem](t *testing.T, stream *device.Stream, v []T) device.Slice[T] {
	t.Helper()
	s, err := device.Upload(stream, v)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Free() })
	return s
}

func download[T device.Elem](t *testing.T, stream *device.Stream, s device.Slice[T]) []T {
	t.Helper()
	v := make([]T, s.Len())
	if err := s.CopyTo(t.Context(), stream, v); err != nil {
		t.Fatal(err)
	}
	return v
}

// Kernels compute the same hashes and checksums as this package.
func TestDigests(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	rng := rand.New(rand.NewPCG(1, 1))
	var strings [][]byte
	for size := range 521 {
		strings = append(strings, randomBytes(rng, size))
	}
	for _, size := range []int{1 << 10, 4093, 4096, 4100, 1<<16 - 1, 1 << 16} {
		strings = append(strings, randomBytes(rng, size))
	}
	strings = append(strings, make([]byte, 128), make([]byte, 4), make([]byte, 3))
	devices := map[string]device.Device{}
	for _, arch := range []int{80, 90} {
		devices[fmt.Sprint("sm_", arch)] = devicetest.OpenSim(t, &sim.Options{Arch: arch})
	}
	if dev := devicetest.Open(t); dev.Properties().Kind == device.CUDA {
		devices["CUDA"] = dev
	}
	seed := [2]uint64{rng.Uint64(), rng.Uint64()}
	sip13, fast := hasher{SipHash, seed}, hasher{Fast, seed}
	for name, dev := range devices {
		d := digestOn(t, dev, seed, strings)
		for i, s := range strings {
			if want := sip13.hash(s); d.sip13[i] != want {
				t.Errorf("%s: SipHash of %d bytes is %#x, want %#x", name, len(s), d.sip13[i], want)
			}
			if want := fast.hash(s); d.fast[i] != want {
				t.Errorf("%s: the fast hash of %d bytes is %#x, want %#x", name, len(s), d.fast[i], want)
			}
			want := crc32.Checksum(s, castagnoli)
			for lane, got := range d.crc32c[32*i : 32*i+32] {
				if got != want {
					t.Errorf("%s: lane %d has %#x as the CRC32C of %d bytes, want %#x", name, lane, got, len(s), want)
					break
				}
			}
		}
	}
}

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, 0, n+7)
	for len(b) < n {
		b = binary.LittleEndian.AppendUint64(b, rng.Uint64())
	}
	return b[:n]
}
