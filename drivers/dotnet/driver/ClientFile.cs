using System.Collections.Generic;
using System.IO;
using System.Text.Json.Nodes;

namespace Weir.Driver;

/// <summary>Encryption, login and other client properties of a file, with librdkafka's names.</summary>
internal sealed class ClientFile
{
    public readonly Dictionary<string, string> Properties = new();
    /// <summary>Token of OAUTHBEARER, if the file names one.</summary>
    public readonly string? Token;

    /// <summary>Reads a file. Without a path there are no properties.</summary>
    public ClientFile(string? path)
    {
        if (path == null) return;
        if (JsonNode.Parse(File.ReadAllText(path)) is not JsonObject file) throw new Refused("the client file is no JSON object");
        if (file["properties"] is JsonObject properties)
        {
            foreach ((string name, JsonNode? value) in properties)
            {
                if (value != null) Properties[name] = value.ToString();
            }
        }
        string? token = file["token_file"]?.ToString();
        if (token != null) Token = File.ReadAllText(token).Trim();
    }
}
