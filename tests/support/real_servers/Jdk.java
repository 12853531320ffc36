import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;

/** The HTTP server of the JDK, as its documentation starts it. */
class Jdk {
    private static volatile int last;

    public static void main(String[] arguments) throws Exception {
        int turns = Integer.parseInt(System.getenv().getOrDefault("TURNS", "0"));
        byte[] body = "hello\n".getBytes();
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])), 0);
        server.createContext("/", exchange -> {
            for (int turn = 0; turn < turns; turn++) {
                last = turn;
            }
            exchange.getResponseHeaders().set("Content-Type", "text/plain");
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.start();
    }
}
