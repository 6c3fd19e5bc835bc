// TCP from a TUN interface, terminated by gVisor's netstack: the services of `tautline-bench-tun
// stack` with gVisor's forwarder in place of a stack in Rust. `packet`: an end of one connection over a packet
// socket (packet.go), for scripts/bench-packet.
package main

import (
	"fmt"
	"io"
	"log"
	"os"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/fdbased"
	"gvisor.dev/gvisor/pkg/tcpip/link/tun"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"
)

const (
	nic      = 1
	mtu      = 1500
	chunk    = 64 << 10
	inFlight = 2048

	sink   = 5001 // reads everything
	source = 5002 // writes until the peer leaves
	// Any other port returns what it reads.
)

func main() {
	work := func() error { return run(os.Args[1]) }
	if os.Args[1] == "packet" {
		work = func() error { return runPacket(os.Args[2:]) }
	}
	if err := work(); err != nil {
		log.Fatal(err)
	}
}

func run(name string) error {
	descriptor, err := tun.Open(name)
	if err != nil {
		return fmt.Errorf("opening %s: %w", name, err)
	}
	link, err := fdbased.New(&fdbased.Options{FDs: []int{descriptor}, MTU: mtu})
	if err != nil {
		return err
	}
	s := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol},
	})
	if err := setTCPOptions(s); err != nil {
		return err
	}
	if err := s.CreateNIC(nic, link); err != nil {
		return fmt.Errorf("a NIC: %v", err)
	}
	// Every address is the stack's own.
	if err := s.SetPromiscuousMode(nic, true); err != nil {
		return fmt.Errorf("promiscuous mode: %v", err)
	}
	if err := s.SetSpoofing(nic, true); err != nil {
		return fmt.Errorf("spoofing: %v", err)
	}
	s.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nic}})
	forwarder := tcp.NewForwarder(s, 0, inFlight, func(request *tcp.ForwarderRequest) {
		// The request forgets its ends once it is complete.
		port := request.ID().LocalPort
		var queue waiter.Queue
		endpoint, err := request.CreateEndpoint(&queue)
		if err != nil {
			request.Complete(true)
			return
		}
		request.Complete(false)
		endpoint.SocketOptions().SetDelayOption(false)
		go serve(port, gonet.NewTCPConn(&queue, endpoint))
	})
	s.SetTransportProtocolHandler(tcp.ProtocolNumber, forwarder.HandlePacket)
	s.Wait()
	return nil
}

// setTCPOptions enables what every client of gVisor enables; both are off by default.
func setTCPOptions(s *stack.Stack) error {
	sack, moderate := tcpip.TCPSACKEnabled(true), tcpip.TCPModerateReceiveBufferOption(true)
	for _, option := range []tcpip.SettableTransportProtocolOption{&sack, &moderate} {
		if err := s.SetTransportProtocolOption(tcp.ProtocolNumber, option); err != nil {
			return fmt.Errorf("an option: %v", err)
		}
	}
	return nil
}

func serve(port uint16, connection *gonet.TCPConn) {
	defer connection.Close()
	switch port {
	case sink:
		io.CopyBuffer(io.Discard, connection, make([]byte, chunk))
	case source:
		for buffer := make([]byte, chunk); ; {
			if _, err := connection.Write(buffer); err != nil {
				return
			}
		}
	default:
		io.CopyBuffer(connection, connection, make([]byte, 1<<10))
	}
}
