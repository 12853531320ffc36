# An event loop in plain Perl: reads a body, loops, and answers JSON that varies.
use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;

my ($port, $rounds) = @ARGV;
my $listener = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => $port, Listen => 1024, ReuseAddr => 1)
    or die "cannot listen on port $port: $!\n";
my $ready = IO::Select->new($listener);
my %received;
$SIG{PIPE} = "IGNORE";

while (1) {
    for my $socket ($ready->can_read) {
        if ($socket == $listener) {
            $ready->add(scalar $listener->accept);
            next;
        }
        my $count = sysread($socket, my $part, 65536);
        if (!$count) {
            delete $received{$socket};
            $ready->remove($socket);
            close $socket;
            next;
        }
        $received{$socket} .= $part;
        while ($received{$socket} =~ /^(.*?\r\n\r\n)/s) {
            my $head = $1;
            my $length = $head =~ /^content-length:\s*(\d+)/im ? $1 : 0;
            last if length($received{$socket}) < length($head) + $length;
            substr($received{$socket}, 0, length($head) + $length) = "";
            my $value = $length;
            $value = ($value * 31 + 7) % 1000003 for 1 .. $rounds;
            my $answer = sprintf '{"id":"%08x","at":%d,"value":%d}', rand(2**32), time, $value;
            syswrite $socket, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " . length($answer) . "\r\n\r\n$answer";
        }
    }
}
