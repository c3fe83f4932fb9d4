package experiment

import (
	"errors"
	"testing"
)

// If one index grows earlier than another with the same keys, as on a GPU, fewer are measured.
func TestAtMost(t *testing.T) {
	for _, tt := range []struct {
		grows []int // per fill: it grows with more keys than this
		want  int   // 0: no number is found
	}{
		{[]int{8000}, 7488}, {[]int{7488}, 7488}, {[]int{7360, 7488}, 7360}, {[]int{7424, 7360, 7400}, 7360}, {[]int{7424, 7360, 7296}, 0},
	} {
		fills := 0
		is, err := fillUntilStable(7488, 3, func(most int) (int, error) {
			fills++
			return min(most, tt.grows[fills-1]), nil
		})
		if is != tt.want || (err == nil) != (tt.want > 0) || err != nil && !errors.Is(err, errWrong) {
			t.Errorf("%v: %d, %v, want %d", tt.grows, is, err, tt.want)
		}
	}
	if _, err := fillUntilStable(1, 3, func(int) (int, error) { return 0, errors.ErrUnsupported }); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}
