package shard

// Stats counts the rows that this rank has exchanged, and measures how evenly they were
// distributed.
type Stats struct {
	Batches  uint64
	Rows     uint64 // rows in batches of this rank
	Sent     uint64 // rows sent to all ranks, including this one; a range of keys may go to several
	Combined uint64 // rows not sent, because another row of their hot key was
	Received uint64 // rows received from all ranks

	// Skew describes the last batch: the largest number of rows that a rank received, divided by
	// the mean of all ranks. 1 is even.
	Skew float64
	// MinMessage is the smallest number of rows that any rank sent to another in the last batch.
	// Messages of less than 256 KiB do not use the full bandwidth of a network.
	MinMessage uint64
}

// Stats returns the statistics since New. It is not collective.
func (r *Ranks) Stats() Stats { return r.stats }

func (s *Stats) add(x *exchange) {
	if x.sentSum == 0 && x.receivedSum == 0 {
		return
	}
	s.Batches++
	s.Rows += uint64(x.n)
	s.Sent += uint64(x.sentSum)
	s.Combined += uint64(max(x.n-x.sentSum, 0))
	s.Received += uint64(x.receivedSum)
	r := x.r
	maxReceived, all, minMessage := uint64(0), uint64(0), ^uint64(0)
	for to := range r.size {
		sum := uint64(0)
		for from := range r.size {
			n := r.word(from, headWords+to)
			sum += n
			minMessage = min(minMessage, n)
		}
		maxReceived, all = max(maxReceived, sum), all+sum
	}
	s.MinMessage = minMessage
	s.Skew = float64(maxReceived) * float64(r.size) / float64(all)
}
