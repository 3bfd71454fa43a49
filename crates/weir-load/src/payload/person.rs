//! Objects that change little from record to record: `complex`, `verycomplex` and `jsonkeyx`.
//!
//! There is one object per name, shared by all producers. Each record of a name changes two members
//! of its object.

use super::random::{JsonText, TextPool, push, push_number};
use crate::keys::{FIRST_NAMES, HOBBIES};

const TEXT_LEN: usize = 256;
const CHANGES_LEN: usize = 20;
const TEXT_MEMBERS: [&str; 4] = ["firstText", "secondText", "thirdText", "fourthText"];
/// The published generator has a small n in the first one, and mappings rely on it.
const NUMBER_MEMBERS: [&str; 4] = ["firstnumber", "secondNumber", "thirdNumber", "fourthNumber"];
/// Index of the number that changes together with each text.
const NUMBER_OF_TEXT: [usize; 4] = [3, 2, 1, 0];
const KEY_NAMES: usize = 1024;
const KEY_NAME_AT: usize = 998;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PersonForm {
    Complex,
    VeryComplex,
    JsonKey,
}

#[derive(Debug, Clone)]
pub(super) struct People {
    form: PersonForm,
    people: Vec<Person>,
    /// Array of a key that is an object, before and after the record's own name.
    names: (String, String),
    key: Vec<u8>,
}

#[derive(Debug, Clone)]
struct Person {
    id: String,
    /// Start of `changes` and of each text in the pool.
    changes: usize,
    texts: [usize; 4],
    numbers: [i32; 4],
    /// `"hobbies":[...]`, which is constant.
    hobbies: String,
}

impl People {
    pub(super) fn new(form: PersonForm, names: &[String], pool: &mut TextPool) -> Self {
        let mut cycle = FIRST_NAMES.clone();
        shuffle(&mut cycle, pool);
        let person = |id: &String| Person {
            id: id.clone(),
            changes: pool.draw(CHANGES_LEN),
            texts: [(); 4].map(|()| pool.draw(TEXT_LEN)),
            numbers: [(); 4].map(|()| pool.draw_number()),
            hobbies: hobbies(pool),
        };
        Self {
            form,
            people: names.iter().map(person).collect(),
            names: key_names(&cycle),
            key: Vec::new(),
        }
    }

    /// Changes the object of a name and appends it.
    pub(super) fn push(
        &mut self,
        out: &mut Vec<u8>,
        text: &mut JsonText,
        name: usize,
        due_unix_ns: u64,
    ) {
        self.change(name, &mut text.pool);
        self.push_value(out, text, name, due_unix_ns);
        if self.form == PersonForm::JsonKey {
            self.write_key(text, name, due_unix_ns);
        }
    }

    pub(super) fn key(&self, name: usize) -> &[u8] {
        match self.form {
            PersonForm::JsonKey => &self.key,
            PersonForm::Complex | PersonForm::VeryComplex => self.people[name].id.as_bytes(),
        }
    }

    fn change(&mut self, name: usize, pool: &mut TextPool) {
        let person = &mut self.people[name];
        // The published generator draws one of forty, ten for each text.
        let which = pool.random.below(4) as usize;
        if self.form == PersonForm::Complex {
            person.texts[which] = pool.draw(TEXT_LEN);
        } else {
            person.changes = pool.draw(CHANGES_LEN);
        }
        person.numbers[NUMBER_OF_TEXT[which]] = pool.draw_number();
    }

    fn push_value(&self, out: &mut Vec<u8>, text: &mut JsonText, name: usize, due_unix_ns: u64) {
        let (person, pool) = (&self.people[name], &text.pool);
        push(out, &[b"{\"id\":\"", person.id.as_bytes()]);
        if self.form != PersonForm::Complex {
            let changes = pool.piece(person.changes, CHANGES_LEN);
            push(out, &[b"\",\"changes\":\"", changes]);
        }
        for (member, at) in TEXT_MEMBERS.into_iter().zip(person.texts) {
            let piece = pool.piece(at, TEXT_LEN);
            push(out, &[b"\",\"", member.as_bytes(), b"\":\"", piece]);
        }
        push(out, &[b"\","]);
        for (member, number) in NUMBER_MEMBERS.into_iter().zip(person.numbers) {
            push(out, &[b"\"", member.as_bytes(), b"\":"]);
            push_number(out, number);
            out.push(b',');
        }
        push(out, &[person.hobbies.as_bytes(), b",\"timestamp\":\""]);
        text.push_time(out, due_unix_ns);
        push(out, &[b"\"}"]);
    }

    fn write_key(&mut self, text: &mut JsonText, name: usize, due_unix_ns: u64) {
        let (person, out) = (&self.people[name], &mut self.key);
        let id = person.id.as_bytes();
        out.clear();
        push(out, &[b"{\"timestamp\":\""]);
        text.push_time(out, due_unix_ns);
        push(out, &[b"\",\"nameId\":\"", id, b"\",\"sndValue\":\""]);
        let piece = text.pool.piece(person.texts[1], TEXT_LEN);
        push(out, &[piece, b"\",\"intNum\":"]);
        push_number(out, person.numbers[0]);
        let (before, after) = &self.names;
        push(out, &[before.as_bytes(), id, after.as_bytes()]);
    }
}

fn hobbies(pool: &mut TextPool) -> String {
    let drawn = [(); 3].map(|()| HOBBIES[pool.random.below(HOBBIES.len() as u32) as usize]);
    format!("\"hobbies\":[{}]", quoted(drawn))
}

/// Returns the names of a shuffled cycle: those before position [`KEY_NAME_AT`], and those after
/// it.
fn key_names(cycle: &[&str]) -> (String, String) {
    let names: Vec<_> = cycle.iter().copied().cycle().take(KEY_NAMES).collect();
    let before = quoted(names[..KEY_NAME_AT].iter().copied());
    let after = quoted(names[KEY_NAME_AT + 1..].iter().copied());
    (format!(",\"names\":[{before},\""), format!("\",{after}]}}"))
}

/// Quotes texts; the names of the pools need no escaping.
fn quoted<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let quoted = texts.into_iter().map(|text| format!("\"{text}\""));
    quoted.collect::<Vec<_>>().join(",")
}

fn shuffle(names: &mut [&'static str], pool: &mut TextPool) {
    for last in (1..names.len()).rev() {
        // The pools have 40 names.
        let other = pool.random.below(last as u32 + 1) as usize;
        names.swap(last, other);
    }
}
