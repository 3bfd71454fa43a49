import java.io.OutputStream;
import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.KeyFactory;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.interfaces.RSAPublicKey;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.Collection;
import java.util.Scanner;
import java.util.Set;

/**
 * Writes key and trust stores from PEM files, and the signing keys of tokens.
 *
 * <p>Reads one order per line from standard input, with fields separated by tabs, so that no
 * password is an argument:
 *
 * <pre>
 * password PASSWORD
 * trust TYPE OUT CERTIFICATES.pem
 * key TYPE OUT CERTIFICATES.pem KEY.pem
 * rsa OUT.key OUT.jwks ID
 * </pre>
 */
public final class Stores {
    private static char[] password = new char[0];

    public static void main(String[] args) throws Exception {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] order = lines.nextLine().split("\t");
            switch (order[0]) {
                case "password" -> password = order[1].toCharArray();
                case "trust" -> trust(order[1], Path.of(order[2]), Path.of(order[3]));
                case "key" -> key(order[1], Path.of(order[2]), Path.of(order[3]), Path.of(order[4]));
                case "rsa" -> rsa(Path.of(order[1]), Path.of(order[2]), order[3]);
                default -> throw new IllegalArgumentException("unknown order " + order[0]);
            }
        }
    }

    private static void trust(String type, Path out, Path certificates) throws Exception {
        KeyStore store = empty(type);
        int number = 0;
        for (Certificate certificate : read(certificates)) {
            store.setCertificateEntry("ca-" + number++, certificate);
        }
        write(store, out);
    }

    private static void key(String type, Path out, Path certificates, Path key) throws Exception {
        KeyStore store = empty(type);
        Certificate[] chain = read(certificates).toArray(new Certificate[0]);
        store.setKeyEntry("key", privateKey(key), password, chain);
        write(store, out);
    }

    private static void rsa(Path privateKey, Path keySet, String id) throws Exception {
        KeyPairGenerator generator = KeyPairGenerator.getInstance("RSA");
        generator.initialize(2048);
        KeyPair pair = generator.generateKeyPair();
        String pem = Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(pair.getPrivate().getEncoded());
        String begin = "-----BEGIN PRIVATE KEY-----\n";
        try (OutputStream to = create(privateKey)) {
            to.write((begin + pem + "\n-----END PRIVATE KEY-----\n").getBytes("US-ASCII"));
        }
        RSAPublicKey key = (RSAPublicKey) pair.getPublic();
        String json = """
            {"keys":[{"kty":"RSA","use":"sig","alg":"RS256","kid":"%s","n":"%s","e":"%s"}]}
            """;
        Files.writeString(keySet, json.formatted(id, number(key.getModulus()), number(key.getPublicExponent())));
    }

    private static String number(BigInteger value) {
        byte[] bytes = value.toByteArray();
        int from = bytes[0] == 0 ? 1 : 0;
        byte[] unsigned = java.util.Arrays.copyOfRange(bytes, from, bytes.length);
        return Base64.getUrlEncoder().withoutPadding().encodeToString(unsigned);
    }

    private static KeyStore empty(String type) throws Exception {
        KeyStore store = KeyStore.getInstance(type);
        store.load(null, password);
        return store;
    }

    private static Collection<? extends Certificate> read(Path pem) throws Exception {
        try (var input = Files.newInputStream(pem)) {
            return CertificateFactory.getInstance("X.509").generateCertificates(input);
        }
    }

    private static PrivateKey privateKey(Path pem) throws Exception {
        String base64 = Files.readString(pem).replaceAll("-----[A-Z ]+-----", "").replaceAll("\\s", "");
        var spec = new PKCS8EncodedKeySpec(Base64.getDecoder().decode(base64));
        return KeyFactory.getInstance("EC").generatePrivate(spec);
    }

    private static void write(KeyStore store, Path out) throws Exception {
        try (OutputStream to = create(out)) {
            store.store(to, password);
        }
    }

    /** Creates a file that only this user can read. */
    private static OutputStream create(Path out) throws Exception {
        Files.deleteIfExists(out);
        Files.createFile(out, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
        return Files.newOutputStream(out, Set.of(StandardOpenOption.WRITE).toArray(new StandardOpenOption[0]));
    }
}
