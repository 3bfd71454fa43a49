using System.Collections.Generic;

namespace Weir.Driver;

/// <summary>Encryption and login, from librdkafka's names to the Java client's.</summary>
internal static class JavaSecurity
{
    private const string Modules = "org.apache.kafka.common.security.";

    public static Dictionary<string, string> Of(ClientFile client)
    {
        var settings = new Dictionary<string, string>();
        foreach ((string name, string value) in client.Properties)
        {
            switch (name)
            {
                case "security.protocol":
                    settings[name] = value.ToUpperInvariant();
                    break;
                case "ssl.ca.pem":
                    settings["ssl.truststore.type"] = "PEM";
                    settings["ssl.truststore.certificates"] = value;
                    break;
                case "ssl.certificate.pem":
                    settings["ssl.keystore.type"] = "PEM";
                    settings["ssl.keystore.certificate.chain"] = value;
                    break;
                case "ssl.key.pem":
                    settings["ssl.keystore.key"] = value;
                    break;
                case "ssl.endpoint.identification.algorithm":
                    settings[name] = value == "none" ? "" : value;
                    break;
                case "sasl.mechanism":
                    settings[name] = value;
                    settings["sasl.jaas.config"] = Login(value, client.Properties);
                    break;
                case "sasl.username":
                case "sasl.password":
                case "enable.ssl.certificate.verification":
                    break;
                default:
                    // Other properties of librdkafka have no meaning here.
                    if (name.StartsWith("ssl.") || name.StartsWith("sasl.")) throw new Refused($"no equivalent of the property {name} in this client");
                    break;
            }
        }
        return settings;
    }

    private static string Login(string mechanism, Dictionary<string, string> properties)
    {
        string module = mechanism switch
        {
            "PLAIN" => "plain.PlainLoginModule",
            "SCRAM-SHA-256" or "SCRAM-SHA-512" => "scram.ScramLoginModule",
            "OAUTHBEARER" => throw new Refused("no login with OAUTHBEARER in this driver: the VM would need the address of the token at its start"),
            _ => throw new Refused($"no login with {mechanism} in this driver"),
        };
        string user = properties.GetValueOrDefault("sasl.username", "");
        string password = properties.GetValueOrDefault("sasl.password", "");
        return $"{Modules}{module} required username={Quoted(user)} password={Quoted(password)};";
    }

    private static string Quoted(string text) => '"' + text.Replace("\\", "\\\\").Replace("\"", "\\\"") + '"';
}
