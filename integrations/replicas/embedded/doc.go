// Package embedded runs a NATS server inside the process for the replicas of package
// replicas, clustered with those of its peers, so that nothing else need be installed.
//
// On one host the nodes find each other through a directory, in which each leaves a file
// with its address:
//
//	node, err := embedded.Open(embedded.Config{Name: hostname})
//	r, err := replicas.New(replicas.Config{Name: hostname, Transport: node})
//
// On several hosts they are told where the others' routes listen; the name of a headless
// service will do, as all its addresses are tried:
//
//	node, err := embedded.Open(embedded.Config{
//		Name: podName, Listen: ":6222", Advertise: podIP + ":6222",
//		Seeds: []string{"gateway-peers.default.svc:6222"}, Secret: secret,
//	})
//
// Who has the secret may say what it likes about its load. TLS between the nodes, and
// all else that the server can do, is set through Config.Server:
//
//	Server: func(o *server.Options) { o.Cluster.TLSConfig = mutual }
//
// It is a module of its own, since the server makes a binary 10 MB larger.
package embedded
