package join

import (
	"context"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/spill"
)

// LimitMemory sets the memory of a join, which may be below MinMemory, and its number of
// partitions.
func (j *Join) LimitMemory(share int64, parts int) {
	j.job.rightBytes, j.job.batchBytes, j.job.nParts = share, max(share/10, 1), parts
}

// SetHooks wraps the disk of the temporary file, and hooks reservations of memory.
func (j *Join) SetHooks(wrap func(spill.Disk) spill.Disk, reserve func(n int64) error) {
	j.job.wrapDisk, j.job.budget.Hook = wrap, reserve
}

// InUse returns the bytes of memory in stores.
func (j *Join) InUse() int64 { return j.job.budget.Used() }

// SetPieceSize sets the sizes of the pieces in which an index copies keys and pairs.
func (ix *IndexOn[K]) SetPieceSize(piece, chunk int) { ix.piece, ix.chunk = piece, chunk }

// InnerInPieces calls InnerOn with small pieces. It returns the number of indexes built.
func InnerInPieces[K weft.Key](
	ctx context.Context, dev device.Device, left, right []K, memory int64, yield func(Pairs) bool,
) (parts int, err error) {
	j := innerOn[K]{
		dev: dev, left: left, right: right, memory: memory, piece: 1000, chunk: 100, minRows: 16,
	}
	err = j.run(ctx, yield)
	return j.nIndexes, err
}
