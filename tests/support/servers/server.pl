# A process for each connection.
use strict;
use warnings;
use IO::Socket::INET;

$SIG{CHLD} = $SIG{PIPE} = 'IGNORE';
my $listening = IO::Socket::INET->new(LocalPort => $ARGV[0], Listen => 128, ReuseAddr => 1) or die $!;
while (1) {
    my $client = $listening->accept or next;
    next if fork;
    while (defined(my $line = <$client>)) {
        syswrite $client, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n" if $line eq "\r\n";
    }
    exit;
}
