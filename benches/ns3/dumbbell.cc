// The dumbbell of benches/src/dumbbell.rs in ns-3: a fast way in, a router with pfifo_fast above a device queue of one packet, a slow
// way out, New Reno. Prints packets through the bottleneck and Mbit/s of goodput after the first second.
//
// This program uses ns-3, which is under the GNU General Public License, version 2. It is built by scripts/bench-ns3 alone and is
// no part of the library: nothing of tautline is linked with it.
//
//   dumbbell one|ten SECONDS

#include <cstdlib>
#include <cstring>
#include <iostream>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

namespace
{
constexpr uint16_t PORT = 5001;
uint64_t g_packets = 0;
uint64_t g_before = 0;

void
Left(Ptr<const Packet>)
{
    ++g_packets;
}

void
Mark(Ptr<PacketSink> sink)
{
    g_before = sink->GetTotalRx();
}

NetDeviceContainer
Cable(Ptr<Node> a, Ptr<Node> b, const char* rate, const char* delay)
{
    PointToPointHelper cable;
    cable.SetDeviceAttribute("DataRate", StringValue(rate));
    cable.SetDeviceAttribute("Mtu", UintegerValue(1500));
    cable.SetChannelAttribute("Delay", StringValue(delay));
    cable.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1p"));
    return cable.Install(a, b);
}
} // namespace

int
main(int argc, char** argv)
{
    const bool one = argc == 3 && std::strcmp(argv[1], "one") == 0;
    const bool ten = argc == 3 && std::strcmp(argv[1], "ten") == 0;
    const double seconds = argc == 3 ? std::atof(argv[2]) : 0;
    if (!(one || ten) || seconds < 2)
    {
        std::cerr << "usage: dumbbell one|ten SECONDS, from 2 up\n";
        return 1;
    }

    // Payload of a full segment with timestamps, as the other side has it; buffers that are never in the way; Linux's window to begin.
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::TcpLinuxReno")));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(4 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(6 << 20));

    NodeContainer nodes;
    nodes.Create(3);
    const NetDeviceContainer access = Cable(nodes.Get(0), nodes.Get(1), one ? "100Mbps" : "10Gbps", "100us");
    const NetDeviceContainer bottleneck = Cable(nodes.Get(1), nodes.Get(2), one ? "10Mbps" : "1Gbps", "5ms");

    InternetStackHelper stack;
    stack.Install(nodes);
    TrafficControlHelper control;
    control.SetRootQueueDisc("ns3::PfifoFastQueueDisc", "MaxSize", StringValue("1000p"));
    control.Install(access);
    control.Install(bottleneck);
    Ipv4AddressHelper addresses;
    addresses.SetBase("10.0.1.0", "255.255.255.0");
    addresses.Assign(access);
    addresses.SetBase("10.0.2.0", "255.255.255.0");
    const Ipv4InterfaceContainer far = addresses.Assign(bottleneck);
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    const InetSocketAddress server(far.GetAddress(1), PORT);
    PacketSinkHelper sinks("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), PORT));
    const ApplicationContainer sink = sinks.Install(nodes.Get(2));
    BulkSendHelper bulk("ns3::TcpSocketFactory", server);
    bulk.SetAttribute("SendSize", UintegerValue(65536));
    for (int flow = 0; flow < (one ? 1 : 10); ++flow)
    {
        bulk.Install(nodes.Get(0));
    }

    bottleneck.Get(0)->TraceConnectWithoutContext("PhyTxEnd", MakeCallback(&Left));
    const Ptr<PacketSink> received = DynamicCast<PacketSink>(sink.Get(0));
    Simulator::Schedule(Seconds(1), &Mark, received);
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();
    const double goodput = (received->GetTotalRx() - g_before) * 8e-6 / (seconds - 1);
    std::cout << g_packets << ' ' << goodput << '\n';
    Simulator::Destroy();
    return 0;
}
