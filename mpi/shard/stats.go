package shard

// Stats are what exchanges of this rank have moved, and how evenly.
type Stats struct {
	Batches  uint64
	Rows     uint64 // of this rank's callers
	Sent     uint64 // rows to all ranks, this one among them; a range of keys goes to several
	Combined uint64 // rows that were not sent, since another row of their hot key was
	Received uint64 // rows from all ranks

	// Skew is the number of rows that the rank with most rows received in the last batch, divided
	// by the mean of all ranks. 1 is even.
	Skew float64
	// MinMessage is the least number of rows from one rank to another in the last batch. Messages
	// of less than 256 KiB do not use the whole bandwidth of a network.
	MinMessage uint64
}

// Stats returns what has been counted since New. It is not collective.
func (r *Ranks) Stats() Stats { return r.stats }

// add counts a batch.
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
