package proxy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestEventsAreCountedHoweverTheStreamIsCut(t *testing.T) {
	t.Parallel()
	for stream, want := range map[string]int64{
		"": 0,
		": ping\n\ndata: {\"a\":1}\n\ndata:{}\r\n\r\ndata: [DONE]\n\n":           2,
		"event: x\ndata: 1\nid: 7\n\ndata: [DONE] not quite\n\ndata: [DON\n\n":   3,
		"data: [DONE]\r\n\r\ndata:[DONE]\n\n" + "data" + "\n\n" + "datas: 1\n\n": 0,
		"data: " + strings.Repeat("data: \n", 3):                                 3,
		"data: unfinished":                                                       0,
	} {
		for size := 1; size <= len(stream)+1; size++ {
			e, got := &events{}, int64(0)
			for rest := []byte(stream); len(rest) > 0; {
				n := min(size, len(rest))
				got += e.count(rest[:n])
				rest = rest[n:]
			}
			assert.Equal(t, want, got, "%q in pieces of %d", stream, size)
		}
	}
}
