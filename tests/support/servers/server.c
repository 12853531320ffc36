// A process for each connection.
#include <arpa/inet.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n";

int main(int count, char **arguments) {
    int listening = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(count > 1 ? atoi(arguments[1]) : 0)};
    signal(SIGCHLD, SIG_IGN);
    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listening, (struct sockaddr *)&at, sizeof at) || listen(listening, 128)) return 1;
    for (;;) {
        int client = accept(listening, 0, 0);
        if (client < 0) continue;
        if (fork() == 0) {
            char request[4096];
            while (read(client, request, sizeof request) > 0)
                if (write(client, answer, sizeof answer - 1) < 0) break;
            _exit(0);
        }
        close(client);
    }
}
