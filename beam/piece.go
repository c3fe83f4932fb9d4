package beam

import (
	"encoding/binary"
	"fmt"

	"github.com/weftgo/weft"
)

// A piece holds the state of some groups, all of one partition, as bytes:
//
//	schema  length (uint32) and bytes: the schema of the result, as an Arrow stream
//	groups  as group.Groups.SaveParts emits them
//
// withLength prepends the length of b to b.
func withLength(b []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...)
}

// cutPiece returns the schema and the groups of a piece.
func cutPiece(b []byte) (schema, groups []byte, err error) {
	if len(b) < 4 || uint64(len(b)-4) < uint64(binary.LittleEndian.Uint32(b)) {
		return nil, nil, fmt.Errorf("%w: a piece of groups ends early", weft.ErrFormat)
	}
	n := 4 + binary.LittleEndian.Uint32(b)
	return b[4:n], b[n:], nil
}

func schemasDiffer(a, b []byte) error {
	one, err := decodeSchema(a)
	if err != nil {
		return err
	}
	other, err := decodeSchema(b)
	if err != nil {
		return err
	}
	return differ(one, other)
}
