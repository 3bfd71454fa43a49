//! Users as which adapters may connect.

use std::fmt;

/// User as which an adapter may connect.
#[derive(Clone, PartialEq, Eq)]
pub struct AdapterUser {
    /// Name.
    pub name: String,
    /// Password.
    pub password: String,
}

/// Never prints the password.
impl fmt::Debug for AdapterUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AdapterUser").field(&self.name).finish()
    }
}

/// Returns `true` if one of the users has this name and password. All users are compared, in a time
/// that does not depend on where they differ.
pub(crate) fn admits(users: &[AdapterUser], name: Option<&str>, password: Option<&str>) -> bool {
    let (name, password) = (name.unwrap_or_default(), password.unwrap_or_default());
    users.iter().fold(false, |admitted, user| {
        let same_name = equals_constant_time(&user.name, name);
        let same_password = equals_constant_time(&user.password, password);
        admitted | (same_name & same_password)
    })
}

/// Compares all bytes of `given` with those of `secret`. The time depends on the length of `given`
/// only.
fn equals_constant_time(secret: &str, given: &str) -> bool {
    let secret = secret.as_bytes();
    let mut difference = u8::from(secret.len() != given.len());
    for (index, byte) in given.bytes().enumerate() {
        let own = secret.get(index % secret.len().max(1));
        difference |= own.copied().unwrap_or_default() ^ byte;
    }
    difference == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_credentials_are_admitted() {
        let user = |name: &str, password: &str| AdapterUser {
            name: name.to_owned(),
            password: password.to_owned(),
        };
        let users = [user("gw", "secret"), user("other", "pw")];
        assert!(admits(&users, Some("gw"), Some("secret")));
        assert!(admits(&users, Some("other"), Some("pw")));
        let wrong = [
            (Some("gw"), Some("pw")),
            (Some("gw"), Some("secre")),
            (Some("gw"), Some("secretsecret")),
            (Some("gw"), Some("")),
            (Some("gw"), None),
            (Some("Gw"), Some("secret")),
            (None, Some("secret")),
            (None, None),
        ];
        for (name, password) in wrong {
            assert!(!admits(&users, name, password), "{name:?} {password:?}");
        }
        assert!(!admits(&[], None, None));
        assert_eq!(format!("{:?}", users[0]), "AdapterUser(\"gw\")");
    }
}
