package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/weftgo/weft/cmd/weft/internal/distinct"
)

const (
	// outputBuffer is the size of the output buffer in bytes.
	outputBuffer = 64 << 10
	// outputCheck is the number of items between checks of the context.
	outputCheck = 4096
)

// writeText prints "COUNT ITEM" lines. Items are not escaped.
func writeText(ctx context.Context, w io.Writer, top *distinct.Ranking) error {
	out := bufio.NewWriterSize(w, outputBuffer)
	err := visitItems(ctx, top, func(_ int, item []byte, count uint64) error {
		out.Write(strconv.AppendUint(out.AvailableBuffer(), count, 10))
		out.WriteByte(' ')
		out.Write(item)
		return out.WriteByte('\n')
	})
	if err != nil {
		return err
	}
	return out.Flush()
}

// jsonItem is an element of "top". Exactly one of Item and Base64 is set.
type jsonItem struct {
	Count  uint64  `json:"count"`
	Item   *string `json:"item,omitempty"`
	Base64 []byte  `json:"item_base64,omitempty"`
}

// writeJSON prints one object. It has the members of s, and "top" with one item per line.
func writeJSON(ctx context.Context, w io.Writer, s summary, top *distinct.Ranking) error {
	out := bufio.NewWriterSize(w, outputBuffer)
	head, err := json.Marshal(s)
	if err != nil {
		return err
	}
	out.Write(bytes.TrimSuffix(head, []byte("}")))
	out.WriteString(`,"top":[`)
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	err = visitItems(ctx, top, func(i int, item []byte, count uint64) error {
		x := jsonItem{Count: count}
		if utf8.Valid(item) {
			text := string(item)
			x.Item = &text
		} else {
			x.Base64 = item
		}
		line.Reset()
		if err := encoder.Encode(x); err != nil {
			return err
		}
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteByte('\n')
		_, err := out.Write(bytes.TrimSuffix(line.Bytes(), []byte("\n")))
		return err
	})
	if err != nil {
		return err
	}
	out.WriteString("\n]}\n")
	return out.Flush()
}

// visitItems calls f for each item until f returns an error or ctx ends.
func visitItems(ctx context.Context, top *distinct.Ranking,
	f func(i int, item []byte, count uint64) error) error {
	i := -1
	return top.Each(ctx, func(item []byte, count uint64) error {
		if i++; i%outputCheck == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		return f(i, item, count)
	})
}
