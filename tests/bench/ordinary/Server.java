import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.UUID;
import java.util.concurrent.Executors;

/** A server of Java's standard library: reads a body, loops, and answers JSON that varies. */
public class Server {
    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]), rounds = Integer.parseInt(arguments[1]);
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 1024);
        server.createContext("/", exchange -> {
            long value = exchange.getRequestBody().readAllBytes().length;
            for (int i = 0; i < rounds; i++) value = (value * 31 + 7) % 1000003;
            String text = "{\"id\":\"" + UUID.randomUUID() + "\",\"at\":" + System.currentTimeMillis() + ",\"value\":" + value + "}";
            byte[] answer = text.getBytes();
            exchange.getResponseHeaders().set("Content-Type", "application/json");
            exchange.sendResponseHeaders(200, answer.length);
            exchange.getResponseBody().write(answer);
            exchange.close();
        });
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.start();
    }
}
