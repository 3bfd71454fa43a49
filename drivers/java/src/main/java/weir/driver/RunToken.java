package weir.driver;

import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.auth.SaslExtensions;
import org.apache.kafka.common.security.auth.SaslExtensionsCallback;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;

/** Logs clients in with the token of the run; the library's own class needs another library. */
public final class RunToken implements AuthenticateCallbackHandler {
    /** Longer than a run. The broker knows how long the token is valid. */
    private static final long LIFETIME_MS = 24 * 3_600_000L;

    /** The library creates instances by the name of the class. */
    static volatile String text = "";

    private record Token(String value, long lifetimeMs) implements OAuthBearerToken {
        @Override
        public Set<String> scope() {
            return Set.of();
        }

        @Override
        public String principalName() {
            return "weir";
        }

        @Override
        public Long startTimeMs() {
            return null;
        }
    }

    @Override
    public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) {}

    @Override
    public void handle(Callback[] callbacks) throws UnsupportedCallbackException {
        for (Callback callback : callbacks) {
            if (callback instanceof OAuthBearerTokenCallback wanted) {
                wanted.token(new Token(text, System.currentTimeMillis() + LIFETIME_MS));
            } else if (callback instanceof SaslExtensionsCallback wanted) {
                wanted.extensions(SaslExtensions.empty());
            } else {
                throw new UnsupportedCallbackException(callback);
            }
        }
    }

    @Override
    public void close() {}
}
