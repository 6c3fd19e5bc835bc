package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/fdbased"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
)

// Sizes as runsc/boot and runsc/sandbox choose them.
const (
	gsoMaxSize   = 1 << 16
	socketBuffer = 4 << 20
)

// runPacket is an end of one connection over a packet socket with virtio-net headers, the link of runsc:
//
//	packet IFACE ADDRESS/PREFIX sink                  receives, prints Gbit/s
//	packet IFACE ADDRESS/PREFIX source TO SECONDS     sends
func runPacket(arguments []string) error {
	if len(arguments) < 3 {
		return fmt.Errorf("usage: packet IFACE ADDRESS/PREFIX sink|source [TO SECONDS]")
	}
	prefix, err := netip.ParsePrefix(arguments[1])
	if err != nil {
		return err
	}
	s, err := packetStack(arguments[0], prefix)
	if err != nil {
		return err
	}
	if arguments[2] == "sink" {
		return packetSink(s)
	}
	if len(arguments) < 5 {
		return fmt.Errorf("source needs TO and SECONDS")
	}
	to, err := netip.ParseAddr(arguments[3])
	if err != nil {
		return err
	}
	span, err := time.ParseDuration(arguments[4] + "s")
	if err != nil {
		return err
	}
	return packetSource(s, to, span)
}

func packetStack(name string, prefix netip.Prefix) (*stack.Stack, error) {
	device, err := net.InterfaceByName(name)
	if err != nil {
		return nil, err
	}
	all := swapped(unix.ETH_P_ALL)
	descriptor, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	if err != nil {
		return nil, fmt.Errorf("a packet socket: %w", err)
	}
	for _, option := range [][3]int{
		{unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1},
		{unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1},
		{unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, socketBuffer},
		{unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, socketBuffer},
	} {
		if err := unix.SetsockoptInt(descriptor, option[0], option[1], option[2]); err != nil {
			return nil, fmt.Errorf("option %d: %w", option[1], err)
		}
	}
	address := unix.SockaddrLinklayer{Protocol: all, Ifindex: device.Index}
	if err := unix.Bind(descriptor, &address); err != nil {
		return nil, fmt.Errorf("binding to %s: %w", name, err)
	}
	link, err := fdbased.New(&fdbased.Options{
		FDs:                []int{descriptor},
		MTU:                uint32(device.MTU),
		EthernetHeader:     true,
		Address:            tcpip.LinkAddress(device.HardwareAddr),
		PacketDispatchMode: fdbased.RecvMMsg,
		GSOMaxSize:         gsoMaxSize,
		RXChecksumOffload:  true,
	})
	if err != nil {
		return nil, err
	}
	s := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, arp.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol},
	})
	if err := setTCPOptions(s); err != nil {
		return nil, err
	}
	if err := s.CreateNIC(nic, link); err != nil {
		return nil, fmt.Errorf("a NIC: %v", err)
	}
	own := tcpip.ProtocolAddress{
		Protocol: ipv4.ProtocolNumber,
		AddressWithPrefix: tcpip.AddressWithPrefix{
			Address:   tcpip.AddrFrom4(prefix.Addr().As4()),
			PrefixLen: prefix.Bits(),
		},
	}
	if err := s.AddProtocolAddress(nic, own, stack.AddressProperties{}); err != nil {
		return nil, fmt.Errorf("an address: %v", err)
	}
	s.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nic}})
	return s, nil
}

func packetSink(s *stack.Stack) error {
	listener, err := gonet.ListenTCP(s, tcpip.FullAddress{NIC: nic, Port: sink}, ipv4.ProtocolNumber)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "listening")
	connection, err := listener.Accept()
	if err != nil {
		return err
	}
	begun := time.Now()
	count, err := io.CopyBuffer(io.Discard, connection, make([]byte, 1<<20))
	if err != nil {
		return err
	}
	fmt.Printf("%.2f\n", float64(count)*8/1e9/time.Since(begun).Seconds())
	if err := connection.Close(); err != nil {
		return err
	}
	// The FIN leaves before the process does.
	time.Sleep(100 * time.Millisecond)
	return nil
}

func packetSource(s *stack.Stack, to netip.Addr, span time.Duration) error {
	remote := tcpip.FullAddress{NIC: nic, Addr: tcpip.AddrFrom4(to.As4()), Port: sink}
	connection, err := gonet.DialContextTCP(context.Background(), s, remote, ipv4.ProtocolNumber)
	if err != nil {
		return err
	}
	buffer := make([]byte, 1<<20)
	for end := time.Now().Add(span); time.Now().Before(end); {
		if _, err := connection.Write(buffer); err != nil {
			return err
		}
	}
	if err := connection.CloseWrite(); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, connection)
	return err
}

// swapped is a number of 16 bits in network byte order, on the little-endian machines that run this.
func swapped(number uint16) uint16 {
	return number>>8 | number<<8
}
