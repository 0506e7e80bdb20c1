package replicas

import "time"

// Transport carries the messages of a replica to its peers and theirs to it. Messages
// may be lost, repeated and come in any order: the protocol heals that. Its methods may
// be called from several goroutines, and those that send must not block for long.
type Transport interface {
	// Broadcast sends to all other replicas of the pool, Send to the one of the name.
	// The message is the caller's again when they return.
	Broadcast(message []byte) error
	Send(to string, message []byte) error
	// Receive returns the channel of what others sent. An empty message says that the
	// connection was lost and is there again. The channel is closed after Close, and
	// when nothing can ever come any more.
	Receive() <-chan []byte
	// Lag returns how long a message takes at present to what carries it and back, as
	// last measured; 0 if it is not known.
	Lag() time.Duration
	// Close sends what was not sent yet and ends.
	Close() error
}
