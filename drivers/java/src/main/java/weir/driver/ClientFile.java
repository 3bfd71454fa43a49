package weir.driver;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Locale;
import java.util.Map;

/** Encryption and login, from librdkafka's names in a file to the Java client's. */
final class ClientFile {
    private static final String MODULES = "org.apache.kafka.common.security.";

    private ClientFile() {}

    static Map<String, Object> read(Path path) throws IOException {
        JsonNode file = Main.JSON.readTree(path.toFile());
        JsonNode given = file.get("properties");
        Map<String, Object> settings = new HashMap<>();
        for (Iterator<String> names = given.fieldNames(); names.hasNext(); ) {
            String name = names.next();
            String value = given.get(name).asText();
            switch (name) {
                case "security.protocol" -> settings.put(name, value.toUpperCase(Locale.ROOT));
                case "ssl.ca.pem" -> {
                    settings.put("ssl.truststore.type", "PEM");
                    settings.put("ssl.truststore.certificates", value);
                }
                case "ssl.certificate.pem" -> {
                    settings.put("ssl.keystore.type", "PEM");
                    settings.put("ssl.keystore.certificate.chain", value);
                }
                case "ssl.key.pem" -> settings.put("ssl.keystore.key", value);
                case "ssl.endpoint.identification.algorithm" -> settings.put(name, value.equals("none") ? "" : value);
                case "sasl.mechanism" -> settings.put(name, value);
                case "sasl.username", "sasl.password", "enable.ssl.certificate.verification" -> {}
                // Other properties of librdkafka have no meaning here.
                default -> {
                    if (name.startsWith("ssl.") || name.startsWith("sasl."))
                        throw new IllegalArgumentException("no equivalent of the property " + name + " in this client");
                }
            }
        }
        String mechanism = given.path("sasl.mechanism").asText("");
        switch (mechanism) {
            case "" -> {}
            case "PLAIN" -> settings.put("sasl.jaas.config", login("plain.PlainLoginModule", given));
            case "SCRAM-SHA-256", "SCRAM-SHA-512" ->
                settings.put("sasl.jaas.config", login("scram.ScramLoginModule", given));
            case "OAUTHBEARER" -> {
                RunToken.text = Files.readString(Path.of(file.get("token_file").asText())).trim();
                settings.put("sasl.login.callback.handler.class", RunToken.class.getName());
                settings.put("sasl.jaas.config", MODULES + "oauthbearer.OAuthBearerLoginModule required;");
            }
            default -> throw new IllegalArgumentException("no login with " + mechanism + " in this driver");
        }
        return settings;
    }

    private static String login(String module, JsonNode given) {
        return MODULES + module + " required username=" + quoted(given.path("sasl.username").asText())
            + " password=" + quoted(given.path("sasl.password").asText()) + ";";
    }

    private static String quoted(String text) {
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }
}
